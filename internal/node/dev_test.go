package node

import (
	"os"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/show"
)

// A program built by go run or go test is not in the PATH, so printed commands name its
// file.
func TestPrintedCommandsRunThisProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	printDev(&b, config.Default(), deployment.DevInfo{}, "")
	if !strings.Contains(b.String(), "code=$("+show.Quote(self)+" code issue ") {
		t.Errorf("the commands do not run %s:\n%s", self, b.String())
	}
}

// The steps are numbered without a gap, even if there is no demo page.
func TestPrintedStepsAreNumbered(t *testing.T) {
	for page, want := range map[string][]string{"": {"1. R", "2. R", "3. Open"}, "https://127.0.0.1/demo": {"1. R", "2. R", "3. Or", "4. Open"}} {
		var b strings.Builder
		printDev(&b, config.Default(), deployment.DevInfo{DemoPage: page}, "https://127.0.0.1/invitation")
		for _, step := range want {
			if !strings.Contains(b.String(), "\n"+step) {
				t.Errorf("with the page %q, there is no step %q", page, step)
			}
		}
	}
}
