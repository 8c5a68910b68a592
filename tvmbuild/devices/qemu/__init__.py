"""The device `qemu`: boards that qemu emulates on this machine."""
