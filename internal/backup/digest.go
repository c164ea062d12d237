package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
)

// A backup contains the SHA-256 of the whole file, computed with noDigest in its
// place. It detects damage on disk or in transit, in any byte. It does not detect
// a manipulation: an attacker can compute it again.

// noDigest has the length of a digest and occurs nowhere else in the file.
var noDigest = "digest:" + strings.Repeat(".", 2*sha256.Size-len("digest:"))

// readSize is how many bytes of a file are read at once.
const readSize = 1 << 20

// findOnce returns the offset of a text that must occur exactly once in a file.
func findOnce(f io.ReaderAt, text string) (int64, error) {
	found := int64(-1)
	buffer := make([]byte, readSize)
	for at := int64(0); ; at += int64(len(buffer) - len(text) + 1) {
		n, err := f.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for part := 0; ; {
			i := bytes.Index(buffer[part:n], []byte(text))
			if i < 0 {
				break
			}
			if found >= 0 {
				return 0, errors.New("it holds its checksum twice")
			}
			found, part = at+int64(part+i), part+i+1
		}
		if err != nil {
			break
		}
	}
	if found < 0 {
		return 0, errors.New("it does not hold its checksum")
	}
	return found, nil
}

// digestOf computes the digest of a file with noDigest in the place of text, which is the
// digest that the file holds, or noDigest. It also returns the offset of text.
func digestOf(f *os.File, text string) (digest string, at int64, err error) {
	info, err := f.Stat()
	if err == nil {
		at, err = findOnce(f, text)
	}
	if err != nil {
		return "", 0, err
	}
	after := at + int64(len(noDigest))
	h := sha256.New()
	_, err = io.CopyBuffer(h, io.MultiReader(io.NewSectionReader(f, 0, at), strings.NewReader(noDigest),
		io.NewSectionReader(f, after, info.Size()-after)), make([]byte, readSize))
	return hex.EncodeToString(h.Sum(nil)), at, err
}

// writeDigest writes the digest into a complete backup.
func writeDigest(f *os.File) error {
	digest, at, err := digestOf(f, noDigest)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(digest), at)
	return err
}

// checkDigest returns an error if a file's content does not match its digest.
func checkDigest(name, digest string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	have, _, err := digestOf(f, digest)
	if err == nil && have != digest {
		err = errors.New("checksum mismatch: the file was damaged on disk or in transit")
	}
	return err
}
