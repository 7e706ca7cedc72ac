// Light or dark: as the system has it, or as the reader chooses. It runs before the page is drawn, so it is no module.
// A page without the button follows the system.

{
  const KEY = "hubbub-theme";
  const NEXT = { system: "light", light: "dark", dark: "system" };
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // A browser may forbid the store. The choice then lasts as long as the page.
  let choice = "system";
  try {
    choice = localStorage.getItem(KEY) in NEXT ? localStorage.getItem(KEY) : "system";
  } catch {}

  const apply = () => {
    document.documentElement.dataset.theme = choice === "system" ? (dark.matches ? "dark" : "light") : choice;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${choice}`;
    document.dispatchEvent(new Event("theme"));
  };

  const turn = () => {
    choice = NEXT[choice];
    try {
      localStorage.setItem(KEY, choice);
    } catch {}
    apply();
  };

  dark.addEventListener("change", apply);
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", turn);
    apply();
  });
}
