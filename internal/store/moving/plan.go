package moving

import (
	"context"
	"fmt"

	"github.com/mintage/mintage/internal/store"
)

// A step is the first step of a run; the later steps follow it.
type step int

const (
	begin   step = iota // claim the destination, and set the source to leaving
	claim               // claim the destination; the source is leaving already
	open                // both were compared: let servers use the destination
	nothing             // the move is finished
)

const (
	elsewhereAdvice = "name an empty database with --to, or a schema of its own (?search_path=NAME)"
	undoAdvice      = "to move to another database instead, first run: mintage migrate-store --undo --from "
)

// plan returns the step at which a run begins, by the states of both sides.
func plan(source, destination store.Migration, empty bool, from, to string) (step, error) {
	ours := destination.Source != "" && destination.Source == source.Source
	same := ours && destination.Move == source.Move
	switch source.State {
	case "", store.Returned, store.Leaving:
	case store.Left:
		if !same || destination.Claim != source.Claim {
			return 0, refuse("name that destination with --to, or undo the move with --undo", "%s has already moved to %s, not to %s", from, source.OtherStore, to)
		}
		switch destination.State {
		case store.Arriving:
			return open, nil
		case store.Arrived:
			return nothing, nil
		}
		return 0, refuse("run mintage migrate-store --undo again, then move into an empty database", "an undo of this move has begun")
	default:
		return 0, refuse("", "%s is itself the destination of a move (%s)", from, source.State)
	}

	switch {
	case destination.State == store.Arriving && same && source.State == store.Leaving:
		return claim, nil
	case source.State == store.Leaving && source.OtherStore != to:
		return 0, refuse(undoAdvice+from, "%s is already being moved to %s, not to %s", from, source.OtherStore, to)
	case destination.State == store.Arriving && !ours:
		return 0, refuse("finish that move, or name an empty database", "%s holds the incomplete copy of another store, which is being moved from %s", to, destination.OtherStore)
	case destination.State == store.Arriving, destination.State == "" && empty:
		if source.State == store.Leaving {
			return claim, nil
		}
		return begin, nil
	}
	return 0, refuse(elsewhereAdvice, "%s already holds a store, which is not overwritten", to)
}

// ErrNoDestination means that Undo requires the destination, because servers may
// be using it.
var ErrNoDestination = fmt.Errorf("the move was finished, and servers may be using the destination")

// Undo lets servers use the source again and keeps them from the destination.
// gone means that the destination no longer exists; otherwise to may be nil only
// if the source has not left. Undo returns the source's previous state, which is
// empty if there was nothing to undo. The caller holds the source's lock.
func Undo(ctx context.Context, from Source, to Destination, gone bool) (was store.Migration, err error) {
	source, err := from.Migration(ctx)
	if err != nil {
		return was, err
	}
	var destination store.Migration
	if to != nil {
		if destination, err = to.Migration(ctx); err != nil {
			return was, err
		}
	}
	m := &move{from: from, to: to, source: source, destination: destination}
	ours := destination.Source == source.Source && destination.Move == source.Move
	switch source.State {
	case "", store.Returned:
		return was, nil
	case store.Leaving:
		// This package never makes this state, but the source's directory may
		// have been restored from a backup.
		if ours && destination.State == store.Arrived {
			return was, refuse("this directory may be a restored backup: use the store in the database", "%s says that the move is finished, but %s does not", to.Name(), from.Name())
		}
	case store.Left:
		switch {
		case to == nil && !gone:
			return was, ErrNoDestination
		case to == nil:
		case !ours || destination.Claim != source.Claim:
			return was, refuse("name that destination with --to", "%s has moved to %s, not to %s", from.Name(), source.OtherStore, to.Name())
		case destination.State == store.Arrived:
			// The destination comes first: otherwise both could be used for an instant.
			undone := destination
			undone.State = store.Undone
			if err := setMigration(ctx, m.to, &m.destination, undone); err != nil {
				return was, err
			}
		}
	default:
		return was, refuse("", "%s is itself the destination of a move (%s)", from.Name(), source.State)
	}
	was = source
	return was, setMigration(ctx, m.from, &m.source, store.Migration{State: store.Returned, Source: source.Source})
}
