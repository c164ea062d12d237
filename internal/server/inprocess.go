package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// InProcess is an http.RoundTripper that passes requests to a handler of this process.
type InProcess struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (p InProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	// r's context may contain the connection of an outer request. Remove it, so that r
	// does not suspend reads of that connection (see hold).
	if r = r.Clone(context.WithValue(r.Context(), connectionKey{}, nil)); r.Body == nil {
		r.Body = http.NoBody
	}
	w := &answer{header: http.Header{}, status: http.StatusOK}
	p.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header, Body: io.NopCloser(&w.body), Request: r}, nil
}

// An answer is an http.ResponseWriter that keeps the response in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter, as do the methods below.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader keeps the status.
func (w *answer) WriteHeader(status int) { w.status = status }

// Write keeps the body.
func (w *answer) Write(b []byte) (int, error) { return w.body.Write(b) }
