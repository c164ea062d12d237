package postgres

import (
	"errors"
	"testing"

	"github.com/mintage/mintage/internal/store"
)

// The error of a write that surely did not happen states the cause, and not that the store
// is busy.
func TestAnErrorBeforeAWriteSaysThatNothingWasWritten(t *testing.T) {
	cause := errors.New("connection refused")
	err := unwritten(cause)
	if err.Error() != "nothing was written: connection refused" || !errors.Is(err, store.ErrBusy) || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if again := unwritten(err); again != err {
		t.Errorf("said twice: %v", again)
	}
}
