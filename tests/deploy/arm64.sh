#!/usr/bin/env bash
# Make FOLDER/python, a Python for arm64 under qemu that has a wheel of hubbub: arm64.sh FOLDER WHEEL
# It needs Debian 12, because apt gives the programs. It adds no package to this machine.
set -euo pipefail
folder=$1 wheel=$2
mkdir -p "$folder/debs" "$folder/lists" "$folder/root" "$folder/site"
cd "$folder/debs"
options=(-o APT::Sandbox::User=root -o "Dir::State::Lists=$folder/lists" -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -q)
apt-get "${options[@]}" update >/dev/null
apt-get "${options[@]}" download qemu-user-static >/dev/null
for package in python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libexpat1 zlib1g libssl3 libffi8 libgcc-s1 \
    libstdc++6; do
    apt-get "${options[@]}" download "$package:arm64" >/dev/null
done
for file in *_arm64.deb; do dpkg -x "$file" "$folder/root"; done
dpkg -x qemu-user-static_*.deb "$folder/qemu"
python3 -m pip download --quiet --disable-pip-version-check --only-binary :all: --platform manylinux_2_27_aarch64 \
    --platform manylinux2014_aarch64 --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none \
    --dest "$folder/wheels" numpy cffi
for file in "$folder"/wheels/*.whl "$wheel"; do python3 -m zipfile -e "$file" "$folder/site"; done
cat >"$folder/python" <<END
#!/bin/sh
exec "$folder/qemu/usr/bin/qemu-aarch64-static" -L "$folder/root" -E "PYTHONPATH=$folder/site" "$folder/root/usr/bin/python3.11" "\$@"
END
chmod +x "$folder/python"
