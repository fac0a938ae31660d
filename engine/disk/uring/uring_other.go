//go:build !linux

package uring

import (
	"errors"

	"ringlog/engine/disk"
)

var errNotLinux = errors.New("io_uring is Linux's alone")

// Probe says in a sentence why a ring cannot be had.
func Probe() error { return errNotLinux }

// New fails: there is no ring on this system.
func New(string, Options) (disk.Disk, error) { return nil, errNotLinux }
