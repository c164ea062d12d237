package cli

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// backup verify warns when a valid backup may lack keys that are in use, so that a
// monthly check notices.
func TestAnOldBackupCausesAWarning(t *testing.T) {
	dir := t.TempDir()
	st, err := sqlite.Create(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "b")
	old := backup.Job{Dir: dir, File: file, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }, Report: func(backup.CopyProgress) {}}
	if _, err := old.Make(t.Context()); err != nil {
		t.Fatal(err)
	}
	for lifetime, want := range map[time.Duration]bool{0: false, time.Hour: true} { // lifetime 0: keys are kept
		cfg := config.Config{Data: dir, KeyLifetime: config.Duration(lifetime), KeyLead: config.Duration(48 * time.Hour)}
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		err := verifyBackup(cmd, cfg, file, false)
		var hinted *deployment.Hinted
		told := err != nil && strings.Contains(err.Error(), "old: since 2023-11-14T22:13:20Z, keys may be in use that it lacks")
		if told != want || want && (!errors.As(err, &hinted) || !strings.Contains(hinted.Hint, "at least every 2d (key_lead)")) {
			t.Errorf("keys live %s: %v\n%s", lifetime, err, &out)
		}
	}
}
