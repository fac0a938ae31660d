package engine

import "syscall"

const (
	errNoSpaceOnDevice = syscall.ENOSPC
	errQuota           = syscall.EDQUOT
	errProcessFiles    = syscall.EMFILE
	errSystemFiles     = syscall.ENFILE
)
