//go:build !linux && !darwin && !freebsd

package gather

import "ringlog/doctor"

// gatherSystem finds nothing here but what Go knows.
func gatherSystem(*doctor.Facts) {}

// gatherFileSystem finds nothing here.
func gatherFileSystem(*doctor.Facts, string) {}
