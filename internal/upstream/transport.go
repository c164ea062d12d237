package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mintage/mintage/internal/fetch"
)

const (
	// requestTime bounds each request to the provider, with its answer.
	requestTime = 5 * time.Second
	// maxAnswer is far more than metadata, keys and tokens need.
	maxAnswer = 512 << 10
)

// A fault is a request without a usable answer. The libraries wrap it, so that
// isFault distinguishes their errors.
type fault struct{ cause error }

func (f *fault) Error() string { return f.cause.Error() }
func (f *fault) Unwrap() error { return f.cause }

// isFault reports whether an error comes from the connection to the provider, now or a
// moment ago, and not from its answer.
func isFault(err error) bool {
	return errors.As(err, new(*fault)) || errors.Is(err, fetch.ErrLater) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// errTooLarge is no fault: the same would come again.
var errTooLarge = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)

// A transport reads every answer to its end, in bounded time and memory, so
// that what goes wrong on the way goes wrong here and not in a library.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, &fault{err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &fault{err}
	case len(body) > maxAnswer:
		return nil, errTooLarge
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests,
		// Errors of the token endpoint have a meaning, and are read.
		resp.StatusCode != http.StatusOK && r.Method == http.MethodGet:
		return nil, &fault{fmt.Errorf("answered %d", resp.StatusCode)}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
