package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Size is a number of bytes, written like 512MiB or 10GiB; zero is 0.
type Size int64

// The units of sizes.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

var units = []struct {
	size Size
	name string
}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}}

func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// ParseSize reads what String writes of whole KiB.
func ParseSize(text string) (Size, error) {
	if text == "0" {
		return 0, nil
	}
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.name); ok {
			if n, err := strconv.ParseUint(digits, 10, 63); err == nil && n <= uint64(math.MaxInt64/u.size) {
				return Size(n) * u.size, nil
			}
		}
	}
	return 0, fmt.Errorf("%s is not a size: write it like 512MiB or 10GiB", quoted(text))
}
