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

// A fault is the error of a request without a usable response. Libraries wrap it, and
// isFault finds it in their errors.
type fault struct{ cause error }

func (f *fault) Error() string { return f.cause.Error() }
func (f *fault) Unwrap() error { return f.cause }

// isFault reports whether an error comes from the connection to the provider, now or at an
// attempt a moment ago (fetch.ErrLater), and not from the content of a response.
func isFault(err error) bool {
	return errors.As(err, new(*fault)) || errors.Is(err, fetch.ErrLater) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// errTooLarge is not a fault: a repeated request would get the same response.
var errTooLarge = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)

// A transport reads every response completely, in bounded time and memory, so that an
// error of the connection occurs here as a fault, and not within a library.
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
		// Error responses of the token endpoint (POST) are no faults, and are read.
		resp.StatusCode != http.StatusOK && r.Method == http.MethodGet:
		return nil, &fault{fmt.Errorf("answered %d", resp.StatusCode)}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
