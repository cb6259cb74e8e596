package config

import (
	"io"
	"log/slog"
	"os"
)

// The values of log.format: Auto is text on a terminal and JSON elsewhere.
const (
	LogAuto = "auto"
	LogText = "text"
	LogJSON = "json"
)

// Logger returns the logger of a daemon that writes to w.
func (d Deployment) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(d.Log.Level)) // Validate has checked the level
	options := &slog.HandlerOptions{Level: level}
	text := d.Log.Format == LogText
	if f, ok := w.(*os.File); ok && d.Log.Format == LogAuto {
		info, err := f.Stat()
		text = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if text {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
