package node

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/deployment"
)

// States of the service for systemd, see sd_notify(3). There is no watchdog: a timer
// would only prove that timers work, and a restart does not repair a store; /readyz
// reports it.
const (
	stateReady     = "READY=1"
	stateReloading = "RELOADING=1"
	stateStopping  = "STOPPING=1"
)

// tell calls notify, and logs an error.
func tell(log *slog.Logger, state, status string) {
	if err := notify(state, status); err != nil {
		log.Warn("the service manager was not told", "state", state, "error", err)
	}
}

// notify sends a state and a status line to the service manager, if there is one.
func notify(state, status string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "@") {
		return deployment.Hint(errors.New("NOTIFY_SOCKET is neither a path nor an abstract socket"), "only the service manager sets it: unset it")
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state + "\nSTATUS=" + strings.ReplaceAll(status, "\n", " ")))
	return err
}
