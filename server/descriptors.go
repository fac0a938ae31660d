package server

const (
	// descriptorsReserved are file descriptors for everything but segments and
	// clients: metadata, ring, listeners, the admin server, the log.
	descriptorsReserved = 256
	segmentFilesMax     = 4096
	segmentFilesMin     = 64
)

// shareDescriptors says how many segment files may be open when the process may have limit
// descriptors and up to connections clients; enough is false when
// clients at that number would leave the engine without.
func shareDescriptors(limit uint64, connections int) (segmentFiles int, enough bool) {
	left := int64(min(limit, 1<<31)) - descriptorsReserved - int64(connections)
	return int(min(max(left, segmentFilesMin), segmentFilesMax)), left >= segmentFilesMin
}

// segmentFiles shares out the process's descriptors and warns when they are few.
func (s *Server) segmentFiles() int {
	limit, known := descriptorLimit()
	if !known {
		return segmentFilesMax
	}
	connections := int(s.config.integer("max.connections"))
	files, enough := shareDescriptors(limit, connections)
	if !enough {
		s.config.Logger.Warn("the limit of open files is low: with all connections in use, logs cannot open their segments", "limit", limit,
			"max.connections", connections, "recommended", descriptorsReserved+segmentFilesMax+connections)
	}
	return files
}
