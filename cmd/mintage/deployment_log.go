package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/mintage/mintage/internal/config"
)

// linkedLog is a symbolic link in the data directory to the file that the
// server's standard error is.
const linkedLog = "log"

// newLogger writes to w as the configuration says. Its level can be changed.
func newLogger(w io.Writer, c config.Log) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	setLevel(level, c)
	opt := &slog.HandlerOptions{Level: level}
	if c.Format == "text" || c.Format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opt)), level
	}
	return slog.New(slog.NewJSONHandler(w, opt)), level
}

// setLevel sets the level that the configuration names. Check has accepted it.
func setLevel(level *slog.LevelVar, c config.Log) {
	var l slog.Level
	_ = l.UnmarshalText([]byte(c.Level))
	level.Set(l)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
