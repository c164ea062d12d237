package cli

import (
	"context"

	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

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
		adminclient.Poll(ctx, s.cfg)
	}
	return err
}
