package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// A damaged page is found only when it is read, whatever the command.
func TestACommandThatReadsADamagedPageAdvisesABackup(t *testing.T) {
	var b strings.Builder
	printError(&b, fmt.Errorf("read directory: %w", damagedPage{}))
	if !strings.Contains(b.String(), "malformed") || !strings.Contains(b.String(), "\n         the store's file is damaged: put it aside and restore a backup") {
		t.Errorf("%s", b.String())
	}
}

type damagedPage struct{}

func (damagedPage) Error() string { return "database disk image is malformed (11)" }
func (damagedPage) Code() int     { return 11 | 1<<8 }

func TestACommandThatASignalEndsSaysSo(t *testing.T) {
	var b strings.Builder
	printError(&b, fmt.Errorf("read directory: %w", context.Canceled))
	if b.String() != "mintage: read directory: stopped by a signal before it was done\n" {
		t.Errorf("%s", b.String())
	}
}
