"""The page of `hubbub demo --device`, on which the viewer is a device."""
