package gather

// physicalMemory is the name by which FreeBSD tells the bytes of memory.
const physicalMemory = "hw.physmem"
