// Package qr draws QR codes (ISO/IEC 18004): texts of up to 213 bytes, in byte mode, with
// error correction of level M and mask 0. A reader accepts any mask; to choose the one that
// is easiest to read matters on paper, and less on a screen.
package qr

import (
	"fmt"
	"strings"
)

// A version is a size of codes, with level M.
type version struct {
	total     int   // codewords
	check     int   // of them for error correction, in each block
	blocks    int   //
	alignment []int // rows and columns of alignment patterns
}

// versions are 1 to 10.
var versions = []version{
	{26, 10, 1, nil}, {44, 16, 1, []int{6, 18}}, {70, 26, 1, []int{6, 22}}, {100, 18, 2, []int{6, 26}}, {134, 24, 2, []int{6, 30}},
	{172, 16, 4, []int{6, 34}}, {196, 18, 4, []int{6, 22, 38}}, {242, 22, 4, []int{6, 24, 42}}, {292, 22, 5, []int{6, 26, 46}}, {346, 26, 5, []int{6, 28, 50}},
}

// A Code is a square of modules.
type Code struct {
	Size        int
	dark, fixed [][]bool // fixed: it is no data
}

// Encode returns the code of a text; false if it is too long.
func Encode(text string) (*Code, bool) {
	for i, v := range versions {
		number, lengthBits := i+1, 8
		if number == 10 {
			lengthBits = 16
		}
		room := v.total - v.check*v.blocks
		if 4+lengthBits+8*len(text) > 8*room {
			continue
		}
		var b bits
		b.add(4, 4) // byte mode
		b.add(len(text), lengthBits)
		for _, c := range []byte(text) {
			b.add(int(c), 8)
		}
		b.add(0, min(4, 8*room-b.n))
		b.add(0, -b.n&7)
		for pad := 0xec; len(b.octets) < room; pad ^= 0xec ^ 0x11 {
			b.add(pad, 8)
		}
		c := newCode(number, v)
		c.fill(interleave(b.octets, v))
		return c, true
	}
	return nil, false
}

// bits are written from the most significant on.
type bits struct {
	octets []byte
	n      int
}

func (b *bits) add(value, n int) {
	for i := n - 1; i >= 0; i-- {
		if b.n&7 == 0 {
			b.octets = append(b.octets, 0)
		}
		b.octets[b.n>>3] |= byte(value>>i&1) << (7 - b.n&7)
		b.n++
	}
}

// interleave returns the codewords of all blocks, each with its error correction, in turn.
func interleave(data []byte, v version) (all []byte) {
	var blocks, checks [][]byte
	short, longer := len(data)/v.blocks, len(data)%v.blocks // the last ones have one more
	for i := range v.blocks {
		n := short
		if i >= v.blocks-longer {
			n++
		}
		blocks, checks = append(blocks, data[:n]), append(checks, remainder(data[:n], v.check))
		data = data[n:]
	}
	for i := range short + 1 {
		for _, b := range blocks {
			if i < len(b) {
				all = append(all, b[i])
			}
		}
	}
	for i := range v.check {
		for _, c := range checks {
			all = append(all, c[i])
		}
	}
	return all
}

// remainder returns the Reed-Solomon codewords of a block.
func remainder(data []byte, n int) []byte {
	divisor, root := make([]byte, n), byte(1)
	divisor[n-1] = 1
	for range n {
		for j := range n {
			divisor[j] = multiply(divisor[j], root)
			if j+1 < n {
				divisor[j] ^= divisor[j+1]
			}
		}
		root = multiply(root, 2)
	}
	rest := make([]byte, n)
	for _, b := range data {
		factor := b ^ rest[0]
		rest = append(rest[1:], 0)
		for j := range n {
			rest[j] ^= multiply(divisor[j], factor)
		}
	}
	return rest
}

// multiply multiplies in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1.
func multiply(a, b byte) byte {
	z := 0
	for i := 7; i >= 0; i-- {
		z = z<<1 ^ z>>7*0x11d
		z ^= int(b>>i&1) * int(a)
	}
	return byte(z)
}

// newCode returns a code with all that is no data.
func newCode(number int, v version) *Code {
	c := &Code{Size: 17 + 4*number}
	for range c.Size {
		c.dark, c.fixed = append(c.dark, make([]bool, c.Size)), append(c.fixed, make([]bool, c.Size))
	}
	for i := range c.Size { // timing
		c.set(6, i, i%2 == 0)
		c.set(i, 6, i%2 == 0)
	}
	last := c.Size - 4
	for _, at := range [][2]int{{3, 3}, {3, last}, {last, 3}} { // finders, with their edge
		c.ring(at[0], at[1], 4, func(d int) bool { return d != 2 && d != 4 })
	}
	for i, y := range v.alignment {
		for j, x := range v.alignment {
			end := len(v.alignment) - 1
			if !(i == 0 && j == 0 || i == 0 && j == end || i == end && j == 0) {
				c.ring(y, x, 2, func(d int) bool { return d != 1 })
			}
		}
	}
	c.format()
	if number >= 7 {
		rest := number
		for range 12 {
			rest = rest<<1 ^ rest>>11*0x1f25
		}
		for i := range 18 {
			dark := (number<<12|rest)>>i&1 == 1
			c.set(i/3, c.Size-11+i%3, dark)
			c.set(c.Size-11+i%3, i/3, dark)
		}
	}
	return c
}

// format draws the format information of level M and mask 0, twice.
func (c *Code) format() {
	const information = 0x5412
	bit := func(i int) bool { return information>>i&1 == 1 }
	for i := range 6 {
		c.set(i, 8, bit(i))
	}
	c.set(7, 8, bit(6))
	c.set(8, 8, bit(7))
	c.set(8, 7, bit(8))
	for i := 9; i < 15; i++ {
		c.set(8, 14-i, bit(i))
	}
	for i := range 8 {
		c.set(8, c.Size-1-i, bit(i))
	}
	for i := 8; i < 15; i++ {
		c.set(c.Size-15+i, 8, bit(i))
	}
	c.set(c.Size-8, 8, true)
}

func (c *Code) set(y, x int, dark bool) { c.dark[y][x], c.fixed[y][x] = dark, true }

// ring draws squares around a module, as far as they are in the code.
func (c *Code) ring(y, x, radius int, dark func(distance int) bool) {
	for dy := -radius; dy <= radius; dy++ {
		for dx := -radius; dx <= radius; dx++ {
			if min(y+dy, x+dx) >= 0 && max(y+dy, x+dx) < c.Size {
				c.set(y+dy, x+dx, dark(max(dy, -dy, dx, -dx)))
			}
		}
	}
}

// fill writes the codewords in columns of two, up and down from the right, under mask 0.
func (c *Code) fill(data []byte) {
	i := 0
	for right := c.Size - 1; right > 0; right -= 2 {
		if right == 6 {
			right--
		}
		for step := range c.Size {
			y := step
			if (right+1)&2 == 0 {
				y = c.Size - 1 - step
			}
			for x := right; x > right-2; x-- {
				if c.fixed[y][x] {
					continue
				}
				if i < 8*len(data) {
					c.dark[y][x] = data[i>>3]>>(7-i&7)&1 == 1
					i++
				}
				c.dark[y][x] = c.dark[y][x] != ((x+y)%2 == 0)
			}
		}
	}
}

// View is the size with the edge of four modules that readers need.
func (c *Code) View() int { return c.Size + 8 }

// Path returns the dark modules as the path of an SVG whose units are modules.
func (c *Code) Path() string {
	var b strings.Builder
	for y, row := range c.dark {
		for x, dark := range row {
			if dark {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x, y)
			}
		}
	}
	return b.String()
}
