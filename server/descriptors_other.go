//go:build !unix

package server

// descriptorLimit is not known here.
func descriptorLimit() (limit uint64, known bool) { return 0, false }
