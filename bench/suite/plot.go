package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// A rate is a row of the suite's table: requests per second, with the slowest and the
// fastest run.
type rate struct {
	name              string
	typical, low, top float64
}

var (
	tableHead = "| measurement | requests/s | of bare |"
	spreadOf  = regexp.MustCompile(`^([\d,]+) \(([\d,]+) to ([\d,]+)\)$`)
)

// readRates reads the first table of measurements in a page.
func readRates(page string) (rates []rate, err error) {
	_, table, found := strings.Cut(page, tableHead)
	if !found {
		return nil, fmt.Errorf("no table begins with %q", tableHead)
	}
	for i, line := range strings.Split(table, "\n") {
		if i < 2 { // the rest of the table's head
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		parts := spreadOf.FindStringSubmatch(strings.TrimSpace(cells[2]))
		if parts == nil {
			return nil, fmt.Errorf("%q is no rate with its spread", cells[2])
		}
		r := rate{name: strings.ReplaceAll(strings.TrimSpace(cells[1]), "`", "")}
		for i, to := range []*float64{&r.typical, &r.low, &r.top} {
			if *to, err = strconv.ParseFloat(strings.ReplaceAll(parts[i+1], ",", ""), 64); err != nil {
				return nil, err
			}
		}
		rates = append(rates, r)
	}
	return rates, nil
}

// Lengths in the plot's own units.
const (
	plotWidth, plotNames, plotRow, plotBar = 900, 430, 26, 14
	plotTop                                = 34
)

// drawRates returns an SVG with a bar for each measurement, and a line from the slowest
// to the fastest run. Bars of other programs are grey.
func drawRates(rates []rate) []byte {
	most := 1.0
	for _, r := range rates {
		most = max(most, r.top)
	}
	x := func(v float64) float64 { return plotNames + v/most*(plotWidth-plotNames-70) }
	var b bytes.Buffer
	height := plotTop + len(rates)*plotRow + 10
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="13" role="img">`+"\n", plotWidth, height, plotWidth, height)
	fmt.Fprintln(&b, `<title>Requests a second of each measurement, with the slowest and the fastest run</title>`)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<text x="%d" y="20" fill="#444">requests a second: median, slowest and fastest run</text>`+"\n", plotNames)
	for i, r := range rates {
		y := plotTop + i*plotRow
		middle := float64(y) + plotBar/2
		fill := "#2f6f8f"
		if strings.HasPrefix(r.name, "bare") {
			fill = "#b8bcc0"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#111">%s</text>`+"\n", plotNames-8, y+12, html.EscapeString(r.name))
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", plotNames, y, x(r.typical)-plotNames, plotBar, fill)
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="#111"/>`+"\n", x(r.low), middle, x(r.top))
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#444">%s</text>`+"\n", x(r.top)+6, y+12, thousands(r.typical))
	}
	fmt.Fprintln(&b, "</svg>")
	return b.Bytes()
}

// plot writes the SVG of a page's table.
func plot(w io.Writer, page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	rates, err := readRates(string(text))
	if err == nil {
		_, err = w.Write(drawRates(rates))
	}
	return err
}
