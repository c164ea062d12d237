package main

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// announceTime is how long a command waits for the server to take a change.
const announceTime = 2 * time.Second

// An announcing store tells the server that runs on it of every change to the
// directory, so that the change is in force when the command ends, and not at
// the server's next look a second later. Where no server answers, there is
// nobody to tell, or it looks by itself.
type announcing struct {
	store.Store
	cfg config.Config
}

func (s announcing) CreateClient(ctx context.Context, c store.Client, events ...store.Event) error {
	return s.announce(ctx, s.Store.CreateClient(ctx, c, events...))
}

func (s announcing) UpdateClient(ctx context.Context, c store.Client, cutoffs []store.Cutoff, events ...store.Event) error {
	return s.announce(ctx, s.Store.UpdateClient(ctx, c, cutoffs, events...))
}

func (s announcing) AddCutoff(ctx context.Context, c store.Cutoff, events ...store.Event) error {
	return s.announce(ctx, s.Store.AddCutoff(ctx, c, events...))
}

func (s announcing) AddRestore(ctx context.Context, r grant.Restore, events ...store.Event) error {
	return s.announce(ctx, s.Store.AddRestore(ctx, r, events...))
}

func (s announcing) AddKeys(ctx context.Context, version int64, records []keys.Record, events ...store.Event) error {
	return s.announce(ctx, s.Store.AddKeys(ctx, version, records, events...))
}

func (s announcing) ChangeKeys(ctx context.Context, version int64, changed, added []keys.Record, events ...store.Event) error {
	return s.announce(ctx, s.Store.ChangeKeys(ctx, version, changed, added, events...))
}

func (s announcing) PutDocument(ctx context.Context, d store.Document, cutoffs []store.Cutoff, events ...store.Event) error {
	err := s.Store.PutDocument(ctx, d, cutoffs, events...)
	if len(cutoffs) == 0 {
		return err
	}
	return s.announce(ctx, err)
}

// announce passes on the outcome of a change, and tells the server of one that
// was made.
func (s announcing) announce(ctx context.Context, err error) error {
	if err == nil {
		pollServer(ctx, s.cfg)
	}
	return err
}

// pollServer has the server take changes of the directory, and write the uses of
// secrets that it holds in memory. It reports whether the server has done so.
func pollServer(ctx context.Context, cfg config.Config) bool {
	api, err := openAdminAPI(cfg, "")
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	resp, err := api.post(ctx, "/admin/v1/directory/poll", nil)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10))
	return resp.StatusCode == http.StatusOK
}

// post sends a body, which may be nil, to a resource of the admin API.
func (a *adminAPI) post(ctx context.Context, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.client.Do(r)
}
