package cli

import (
	"context"

	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/config"
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

// Commit implements store.Store.
func (s announcing) Commit(ctx context.Context, c store.Change) error {
	err := s.Store.Commit(ctx, c)
	if err == nil && c.Directory() {
		adminclient.Poll(ctx, s.cfg)
	}
	return err
}
