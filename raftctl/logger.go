package raftctl

import (
	"fmt"
	"log/slog"
)

// raftLogger lets raft speak through slog. What raft calls information is of
// interest to who debugs raft.
type raftLogger struct{ log *slog.Logger }

func (l raftLogger) Debug(v ...any) { l.log.Debug("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any) {
	l.log.Debug("raft: " + fmt.Sprintf(format, v...))
}
func (l raftLogger) Info(v ...any)                 { l.log.Debug("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any) { l.log.Debug("raft: " + fmt.Sprintf(format, v...)) }
func (l raftLogger) Warning(v ...any)              { l.log.Warn("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) {
	l.log.Warn("raft: " + fmt.Sprintf(format, v...))
}
func (l raftLogger) Error(v ...any) { l.log.Error("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any) {
	l.log.Error("raft: " + fmt.Sprintf(format, v...))
}

// raft calls these for states that cannot be: its data contradict each other.
func (l raftLogger) Fatal(v ...any)                 { panic("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any) { panic("raft: " + fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                 { panic("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any) { panic("raft: " + fmt.Sprintf(format, v...)) }
