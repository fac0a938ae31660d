package engine

import "syscall"

const (
	errNoSpaceOnDevice = syscall.ENOSPC
	errNotSupported    = syscall.EOPNOTSUPP
	errQuota           = syscall.EDQUOT
	errProcessFiles    = syscall.EMFILE
	errSystemFiles     = syscall.ENFILE
)
