package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestRatesAreReadFromTheTable(t *testing.T) {
	const page = "# Page\n\n| measurement | requests/s | of bare | p99 |\n| --- | ---: | ---: | ---: |\n" +
		"| bare `net/http` handler | 48,293 (46,436 to 61,069) |  | 5.57 ms |\n| a & b | 900 (800 to 1,000) | 0.53 | 6.03 ms |\n\n| measurement | requests/s | of bare |\n"
	rates, err := readRates(page)
	if err != nil || len(rates) != 2 || rates[0] != (rate{"bare net/http handler", 48293, 46436, 61069}) || rates[1] != (rate{"a & b", 900, 800, 1000}) {
		t.Fatalf("%+v, %v", rates, err)
	}
	svg := string(drawRates(rates))
	for _, want := range []string{"a &amp; b", ">48,293<", `fill="#b8bcc0"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
	for _, wrong := range []string{"", strings.ReplaceAll(page, "48,293 (46,436 to 61,069)", "fast")} {
		if rates, err := readRates(wrong); err == nil {
			t.Errorf("%q: %v", wrong, rates)
		}
	}
}

// The plot on the page is that of its table.
func TestThePlotIsCurrent(t *testing.T) {
	const page = "../../docs/explanation/performance.md"
	var want bytes.Buffer
	if err := plot(&want, page); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../docs/explanation/performance.svg")
	if err != nil || !bytes.Equal(have, want.Bytes()) {
		t.Errorf("%v: draw it again: go run ./bench/suite -plot docs/explanation/performance.md > docs/explanation/performance.svg", err)
	}
}
