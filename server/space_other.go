//go:build !linux && !darwin && !freebsd

package server

import "errors"

// diskSpace is not known here.
func diskSpace(string) (total, usable int64, err error) {
	return 0, 0, errors.ErrUnsupported
}
