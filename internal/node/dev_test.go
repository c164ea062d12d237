package node

import (
	"os"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/show"
)

// A program that go run or go test has built is in no PATH: commands to paste
// name its file.
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
