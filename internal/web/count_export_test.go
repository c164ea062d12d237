package web

import (
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/server"
)

// CountLogin counts a login that ended with err.
func CountLogin(m *metrics.Metrics, err error) {
	s := &web{Server: &server.Server{Options: server.Options{Metrics: m}}}
	s.countLogin(err)
}

// ErrRejected is whoever knows the users, and does not let one in.
var ErrRejected = errRejected
