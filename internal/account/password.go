package account

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

const (
	minPassword = 8   // characters
	maxPassword = 256 // bytes
)

// GeneratePassword draws a password of 95 bits.
func GeneratePassword() string { return keys.RandomText(16) }

// checkPassword rejects the passwords that are guessed first. It requires no mixture
// of kinds of characters, which makes passwords worse (NIST SP 800-63B, section
// 5.1.1.2).
func checkPassword(password, username string) error {
	switch {
	case utf8.RuneCountInString(password) < minPassword || len(password) > maxPassword:
		return &oauth.Invalid{Field: "password", Message: fmt.Sprintf("at least %d characters and at most %d bytes", minPassword, maxPassword)}
	case !oauth.IsText(password, maxPassword):
		return &oauth.Invalid{Field: "password", Message: "UTF-8 without control characters"}
	}
	simple := strings.ToLower(strings.ReplaceAll(password, " ", ""))
	switch {
	case simple == username:
		return &oauth.Invalid{Field: "password", Message: "it is the username"}
	case slices.Contains(commonPasswords, simple) || oneCharacter(simple):
		return &oauth.Invalid{Field: "password", Message: "it is a common password or a repeated character"}
	}
	return nil
}

func oneCharacter(s string) bool {
	first, size := utf8.DecodeRuneInString(s)
	return strings.Count(s, string(first))*size == len(s)
}

// commonPasswords are common passwords that are long enough, in lower case.
var commonPasswords = strings.Fields(`
	12345678 123456789 1234567890 0123456789 12345678910 123456789a a123456789 87654321 987654321 0987654321
	12341234 11223344 1122334455 123123123 112233445566 123321123 147258369 123654789 789456123 159753159753
	abcdefgh abcdefghi abcd1234 abc12345 abcd12345 abc123456 a1b2c3d4 1a2b3c4d aa123456 aa12345678 1q2w3e4r 1q2w3e4r5t
	1qaz2wsx 1qazxsw2 zaq12wsx qazwsxedc q1w2e3r4 q1w2e3r4t5 qwertyui qwertyuiop qwerty12 qwerty123 qwerty1234
	qwerty12345 qwerty123456 asdfghjk asdfghjkl asdf1234 zxcvbnm1 zxcvbnm123 1234qwer 123qweasd qweasdzxc
	password password1 password12 password123 password1234 password12345 password123456 password! password1! password123!
	p@ssword p@ssw0rd p@ssw0rd1 p@ssw0rd123 passw0rd passw0rd1 pa$$word pa$$w0rd mypassword yourpassword passwort
	passwort1 motdepasse contraseña changeme changeme1 changeme123 changeit letmein1 letmein123 welcome1 welcome12
	welcome123 welcome2024 welcome2025 welcome2026 administrator admin123 admin1234 admin12345 adminadmin admin@123 rootroot
	toor1234 testtest test1234 test12345 testpassword useruser user1234 guest123 guestguest default1 secret12 secret123
	iloveyou iloveyou1 iloveyou2 sunshine sunshine1 princess princess1 football football1 baseball baseball1 basketball
	superman superman1 batman123 pokemon1 starwars starwars1 whatever whatever1 trustno1 dragon123 monkey123 master123
	michael1 jennifer jordan23 computer computer1 internet internet1 samsung1 liverpool chelsea1 arsenal1 blink182
	charlie1 ashley12 jessica1 corvette mercedes maverick midnight sakura123 nihon123 doraemon totoro123
	correcthorsebatterystaple letmeinnow openopen opensesame`)
