package cli

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/doctor"
)

// The scripts cannot test that all is well, because they run on machines whose clocks may
// not be synchronized.
func TestDoctorEndsAsTheReportSays(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := conclude(&out, doctor.Report{OK: 12}, false); err != nil || !strings.Contains(out.String(), "all is well: 12 ok") {
		t.Errorf("%v after %q", err, out.String())
	}
	for status, r := range map[int]doctor.Report{1: {Exit: 1, Faults: 2}, 3: {Exit: 3, Warnings: 1}} {
		for _, asJSON := range []bool{false, true} {
			if err := conclude(&out, r, asJSON); err == nil || exitStatus(err) != status || err.Error() != r.Complaint() {
				t.Errorf("exit status %d, %v; want %d, %s", exitStatus(err), err, status, r.Complaint())
			}
		}
	}
}
