package gather

// physicalMemory is the name by which macOS tells the bytes of memory.
const physicalMemory = "hw.memsize"
