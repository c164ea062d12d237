// Package qr draws QR codes (ISO/IEC 18004) of texts, in byte mode, with error correction
// of level M and mask 0. A reader accepts any mask; choosing the most readable one helps
// on paper, and less on a screen.
package qr

import (
	"fmt"
	"strings"

	"rsc.io/qr/coding"
)

// maxVersion is the largest size of a code: 57 modules and 213 bytes.
const maxVersion = 10

// A Code is a square of modules.
type Code struct{ modules *coding.Code }

// Encode returns the code of a text; false if it is longer than 213 bytes.
func Encode(text string) (*Code, bool) {
	data := coding.String(text)
	for v := coding.Version(coding.MinVersion); v <= maxVersion; v++ {
		if data.Bits(v) > 8*v.DataBytes(coding.M) {
			continue
		}
		plan, err := coding.NewPlan(v, coding.M, 0)
		if err != nil {
			return nil, false
		}
		modules, err := plan.Encode(data)
		return &Code{modules}, err == nil
	}
	return nil, false
}

// View returns the size with the edge of four modules that readers need.
func (c *Code) View() int { return c.modules.Size + 8 }

// Path returns the dark modules as the path of an SVG whose units are modules.
func (c *Code) Path() string {
	var b strings.Builder
	for y := range c.modules.Size {
		for x := range c.modules.Size {
			if c.modules.Black(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x, y)
			}
		}
	}
	return b.String()
}
