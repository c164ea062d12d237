package deployment

import (
	"io"
	"log/slog"
	"os"

	"github.com/mintage/mintage/internal/config"
)

// LinkedLog is a symbolic link in the data directory to the file that receives the
// server's standard error.
const LinkedLog = "log"

// NewLogger returns a logger to w as configured, with its level.
func NewLogger(w io.Writer, c config.Log) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	SetLevel(level, c)
	opt := &slog.HandlerOptions{Level: level}
	if c.Format == "text" || c.Format == "auto" && IsTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opt)), level
	}
	return slog.New(slog.NewJSONHandler(w, opt)), level
}

// SetLevel sets the level that the configuration names. Check has accepted it.
func SetLevel(level *slog.LevelVar, c config.Log) {
	var l slog.Level
	_ = l.UnmarshalText([]byte(c.Level))
	level.Set(l)
}

// IsTerminal reports whether w writes to a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
