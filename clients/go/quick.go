package grantd

import (
	"encoding/json"
	"time"
)

// A cached token is answered in microseconds; encoding/json takes as long for the answer. These functions read the usual
// answer of token.get. They leave each other text, valid or not, to encoding/json.

const (
	quickBegin = `{"jsonrpc":"2.0","id":`
	quickMid   = `,"result":`
	// Digits of a number that fits.
	mostDigits = 18
)

// quickResult splits a line into the number of a request and the text of its result, which may still be invalid.
func quickResult(line []byte) (uint64, []byte, bool) {
	s := quick{line, 0}
	if !s.skip(quickBegin) {
		return 0, nil, false
	}
	id, ok := s.integer()
	if !ok || !s.skip(quickMid) || len(line) <= s.at || line[len(line)-1] != '}' {
		return 0, nil, false
	}
	return uint64(id), line[s.at : len(line)-1], true
}

// quickToken is the token of a result.
func quickToken(result []byte) (*Token, bool) {
	s := quick{result, 0}
	token := &Token{Type: "Bearer", Generation: -1, secrets: &secrets{}}
	if !s.skip("{") {
		return nil, false
	}
	for {
		name, ok := s.word()
		if !ok || !s.skip(":") || !s.member(token, name) {
			return nil, false
		}
		if s.skip("}") {
			return token, s.at == len(result) && token.Generation >= 0 && token.secrets.access != ""
		}
		if !s.skip(",") {
			return nil, false
		}
	}
}

// quick reads JSON without white space, and strings without escapes and of ASCII only.
type quick struct {
	text []byte
	at   int
}

func (s *quick) member(token *Token, name []byte) bool {
	switch string(name) {
	case "access_token":
		return s.string(&token.secrets.access)
	case "token_type":
		if s.skip(`"Bearer"`) {
			token.Type = "Bearer"
			return true
		}
		return s.string(&token.Type) && token.Type != ""
	case "account":
		return s.string(&token.Account)
	case "provider":
		return s.string(&token.Provider)
	case "issuer":
		return s.string(&token.Issuer)
	case "scope":
		return s.strings(&token.Scope)
	case "generation":
		value, ok := s.integer()
		token.Generation = value
		return ok
	case "expires_at":
		value, ok := s.integer()
		token.Expiry = time.Unix(value, 0)
		return ok
	case "expires_in":
		_, ok := s.integer()
		return ok
	}
	return false
}

func (s *quick) skip(text string) bool {
	end := s.at + len(text)
	if end > len(s.text) || string(s.text[s.at:end]) != text {
		return false
	}
	s.at = end
	return true
}

func (s *quick) word() ([]byte, bool) {
	if !s.skip(`"`) {
		return nil, false
	}
	for end := s.at; end < len(s.text); end++ {
		switch c := s.text[end]; {
		case c == '"':
			word := s.text[s.at:end]
			s.at = end + 1
			return word, true
		case c < ' ' || c == '\\' || c > '~':
			return nil, false
		}
	}
	return nil, false
}

func (s *quick) string(found *string) bool {
	word, ok := s.word()
	*found = string(word)
	return ok
}

func (s *quick) strings(found *[]string) bool {
	if !s.skip("[") {
		return false
	}
	*found = []string{}
	if s.skip("]") {
		return true
	}
	for {
		word, ok := s.word()
		if !ok {
			return false
		}
		*found = append(*found, string(word))
		if s.skip("]") {
			return true
		}
		if !s.skip(",") {
			return false
		}
	}
}

// integer is a whole number that is not negative.
func (s *quick) integer() (int64, bool) {
	begin, value := s.at, int64(0)
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		if s.at-begin == mostDigits {
			return 0, false
		}
		value = value*10 + int64(s.text[s.at]-'0')
		s.at++
	}
	isOne := s.at > begin && (s.text[begin] != '0' || s.at == begin+1)
	return value, isOne
}

// appendString appends a JSON string.
func appendString(text []byte, value string) []byte {
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			// A string always has JSON.
			quoted, _ := json.Marshal(value)
			return append(text, quoted...)
		}
	}
	return append(append(append(text, '"'), value...), '"')
}
