package grantd

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"
	"unicode/utf8"
)

var answers = []string{
	`{"jsonrpc":"2.0","id":1,"result":{"access_token":"secret","token_type":"Bearer","expires_at":1795833113,"expires_in":3336,` +
		`"scope":["x","y"],"account":"work","provider":"people","issuer":"https://op.example","generation":7}}`,
	`{"jsonrpc":"2.0","id":0,"result":{"access_token":"s","token_type":"DPoP","scope":[],"generation":0}}`,
}

// quickly is the token by the functions of quick.go, and whether they took the text.
func quickly(line []byte) (uint64, *Token, bool) {
	id, result, ok := quickResult(line)
	if !ok {
		return 0, nil, false
	}
	token, ok := quickToken(result)
	return id, token, ok
}

func TestTheUsualAnswerIsReadQuickly(t *testing.T) {
	for _, answer := range answers {
		if _, _, ok := quickly([]byte(answer)); !ok {
			t.Errorf("left to encoding/json: %s", answer)
		}
	}
}

// A text that quick.go takes is valid, and has the same meaning for encoding/json.
func TestQuickAnswersAreThoseOfEncodingJSON(t *testing.T) {
	random, taken := rand.New(rand.NewSource(1)), 0
	pieces := []string{"", `"`, `\`, `\u0041`, "{", "}", "[", "]", ",", ":", "0", "-", "1e3", " ", "null", "\n", "é", "\xff", "\x7f", "x"}
	for i := 0; i < 300_000; i++ {
		line := []byte(answers[random.Intn(len(answers))])
		for changes := random.Intn(3); changes >= 0; changes-- {
			at := random.Intn(len(line))
			end := at + random.Intn(len(line)-at+1)
			if random.Intn(4) > 0 && end > at+2 {
				end = at + random.Intn(3)
			}
			piece := pieces[random.Intn(len(pieces))]
			line = bytes.Join([][]byte{line[:at], []byte(piece), line[end:]}, nil)
			if len(line) == 0 {
				line = []byte("{")
			}
		}
		id, token, ok := quickly(line)
		if !ok {
			continue
		}
		taken++
		got := new(message)
		var wantedID uint64
		if !utf8.Valid(line) || json.Unmarshal(line, got) != nil || json.Unmarshal(got.ID, &wantedID) != nil {
			t.Fatalf("not valid: %q", line)
		}
		wanted, err := newToken(got.Result)
		if err != nil || id != wantedID || !reflect.DeepEqual(token, wanted) {
			t.Fatalf("%q: %d %#v, not %d %#v (%v)", line, id, token, wantedID, wanted, err)
		}
	}
	if taken < 1000 {
		t.Errorf("only %d texts were taken", taken)
	}
}

func TestStringsOfRequests(t *testing.T) {
	for _, text := range []string{"", "work", `a"b\c`, "\n\x01é€😀", "\xff", "<&>"} {
		var back string
		line := appendString(nil, text)
		if json.Unmarshal(line, &back) != nil || back != string([]rune(text)) {
			t.Errorf("%q became %s", text, line)
		}
	}
}
