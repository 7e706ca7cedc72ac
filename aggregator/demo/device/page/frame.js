// Frames: the bytes that leave a device, as docs/wire-format.md defines them.

const HEADER = 40;

/** Returns a frame of reports that follow one another. `digest` has 16 hex digits. */
export function encodeFrame({ digest, pane, width, reports }) {
  const frame = new Uint8Array(HEADER + reports.length);
  const view = new DataView(frame.buffer);
  frame.set([0x48, 0x42, 0x42, 0x31, 1]);
  view.setUint16(6, width, true);
  frame.set(digest.match(/../g).map((pair) => parseInt(pair, 16)), 8);
  view.setBigInt64(16, BigInt(pane), true);
  view.setUint32(32, reports.length / width, true);
  frame.set(reports, HEADER);
  return frame;
}

/** Returns the fields of a frame in the order of their bytes. `show` turns a report into text. */
export function decodeFrame(frame, show) {
  const view = new DataView(frame.buffer, frame.byteOffset);
  const width = view.getUint16(6, true);
  const n = view.getUint32(32, true);
  const pane = Number(view.getBigInt64(16, true));
  const id = hex(frame.subarray(24, 32));
  const reports = Array.from({ length: n }, (_, at) => show(frame.subarray(HEADER + at * width, HEADER + (at + 1) * width)));
  const fields = [
    ["format", 8, `HBB1, version ${frame[4]}, ${width} byte${width === 1 ? "" : "s"} a report`],
    ["query", 8, `digest ${hex(frame.subarray(8, 16))}`],
    ["time", 8, `the second ${pane}, and nothing finer`],
    ["sender", 8, /^0+$/.test(id) ? "none: all zero" : id],
    ["reports", 8, String(n)],
    [n === 1 ? "report" : "all reports", n * width, reports.join(", ")],
  ];
  let at = 0;
  return fields.map(([name, length, meaning]) => {
    const bytes = frame.subarray(at, at + length);
    at += length;
    return { name, bytes, meaning };
  });
}

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
