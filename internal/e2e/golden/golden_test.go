//go:build e2e

// Package golden compares everything that a user of the program can see with
// transcripts: the commands with their output, the endpoints with all headers,
// the metrics, the log and the audit log. A difference is a defect, or a change
// that CHANGELOG.md announces. In the latter case record the transcripts anew:
//
//	go test -tags e2e ./internal/e2e/golden -update
//
// The comment of world.run describes the format. Values that differ from run to
// run are replaced; see forms and masks.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

var (
	update   = flag.Bool("update", false, "write the transcripts of the present program")
	database *pgtest.Server
)

func TestMain(m *testing.M) {
	// Scripts wait for processes more than they compute: two on a core use it. The command
	// line can name another number.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	os.Exit(pgtest.Main(m, &database))
}

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("transcripts: %v, %v", files, err)
	}
	for _, file := range files {
		folder, name := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".txt")
		engines := []string{folder}
		// The engine makes no visible difference: one transcript holds for both.
		if folder == "both" {
			engines = []string{"sqlite", "postgres"}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := string(text)
		ways, err := waysOf(want)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if *update {
			// One engine records all ways. A run without -update compares both engines.
			t.Run(engines[0]+"/"+name, func(t *testing.T) {
				t.Parallel()
				record(t, engines[0], ways, file, want)
			})
			continue
		}
		for _, engine := range engines {
			for _, as := range ways {
				t.Run(engine+"/"+name+"/"+string(as), func(t *testing.T) {
					t.Parallel()
					compare(t, engine, as, file, want)
				})
			}
		}
	}
}

// transcribe runs a script in one way.
func transcribe(t *testing.T, engine string, as way, script string) string {
	w := newWorld(t, engine)
	w.takeWay(as)
	return as.comparable(w.run(script))
}

func compare(t *testing.T, engine string, as way, file, recorded string) {
	got, want := transcribe(t, engine, as, recorded), as.of(recorded)
	if got != want {
		t.Errorf("%s differs (- recorded, + now):\n%s\nIf the difference is wanted: a line in CHANGELOG.md, and go test -tags e2e ./internal/e2e/golden -update",
			file, difference(want, got))
	}
}

// record writes the transcript of a script in several ways.
func record(t *testing.T, engine string, ways []way, file, script string) {
	transcripts := map[way]string{}
	for _, as := range ways {
		transcripts[as] = transcribe(t, engine, as, script)
	}
	if text := merge(ways, transcripts); text != script {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// difference lists the lines that differ, each group of them below its step.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	step, printed := "", ""
	for len(a) > 0 || len(b) > 0 {
		if len(a) > 0 && len(b) > 0 && a[0] == b[0] {
			if isInput(a[0]) && a[0][0] != '#' {
				step = a[0]
			}
			a, b = a[1:], b[1:]
			continue
		}
		if step != printed {
			fmt.Fprintln(&out, step)
			printed = step
		}
		i, j := resume(a, b)
		for _, line := range a[:i] {
			fmt.Fprintln(&out, "-"+line)
		}
		for _, line := range b[:j] {
			fmt.Fprintln(&out, "+"+line)
		}
		a, b = a[i:], b[j:]
		if out.Len() > 20_000 {
			return out.String() + "..."
		}
	}
	return out.String()
}

// resume returns the nearest indices from which both texts are equal again.
func resume(a, b []string) (i, j int) {
	for n := range len(a) + len(b) {
		for i := range min(n, len(a)) + 1 {
			if j := n - i; j <= len(b) && n > 0 && (i < len(a) && j < len(b) && a[i] == b[j] && a[i] != "" || i == len(a) && j == len(b)) {
				return i, j
			}
		}
	}
	return len(a), len(b)
}

// sortedLines sorts lines and removes duplicates, because background work writes in an
// order that differs from run to run.
func sortedLines(lines []string) []string {
	slices.Sort(lines)
	return slices.Compact(lines)
}
