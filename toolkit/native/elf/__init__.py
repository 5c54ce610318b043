"""Facts read from ELF files and from the device code inside them."""
