package oauth

import (
	"strings"
	"testing"
)

func TestReadUserCode(t *testing.T) {
	for _, text := range []string{
		"WDJB-MJHT", "wdjbmjht", " WDJB MJHT\t", "WDJB\u2011MJHT", "WDJB\u2212MJHT",
		"ＷＤＪＢ－ＭＪＨＴ", "ｗｄｊｂｍｊｈｔ", "ＷＤＪＢ\u30fcＭＪＨＴ", "WDJB\u3000ＭＪＨＴ",
	} {
		if code, ok := ReadUserCode(text); !ok || code != "WDJB-MJHT" {
			t.Errorf("%q is read as %q", text, code)
		}
	}
	for _, text := range []string{"", "ＷＤＪＢ－ＭＪＨＡ", "ＷＤＪＢ－ＭＪＨ１", "ﾜﾄﾞｼﾞﾋﾞﾒｼﾞ", "WDJB-MJH\u212a"} {
		if code, ok := ReadUserCode(text); ok {
			t.Errorf("%q is read as %q", text, code)
		}
	}
}

func FuzzReadUserCode(f *testing.F) {
	for _, text := range []string{"WDJB-MJHT", "wdjbmjht", "wdjb mjht bcdf", "", "-", "WDJB-MJHA", strings.Repeat("B", 13), "ßßßßßßßß", "\u2010", "ＷＤＪＢ－ＭＪＨＴ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		code, ok := ReadUserCode(text)
		if !ok {
			if code != "" {
				t.Errorf("%q is refused, and read as %q", text, code)
			}
			return
		}
		letters := strings.ReplaceAll(code, "-", "")
		if len(letters) < MinUserCode || len(letters) > MaxUserCode || strings.Trim(letters, UserLetters) != "" {
			t.Errorf("%q is read as %q", text, code)
		}
		for _, again := range []string{code, strings.ToLower(code), letters} {
			if read, ok := ReadUserCode(again); !ok || read != code {
				t.Errorf("%q is read as %q, and that as %q", text, code, read)
			}
		}
	})
}
