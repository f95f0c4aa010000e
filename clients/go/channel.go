package grantd

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	// Bytes of one answer, requests without an answer, events that the program has not taken.
	longestLine = 1 << 20
	mostWaiting = 1000
	mostEvents  = 10_000
	// Bytes of a request that are neither its method nor its parameters.
	lineOverhead = 80
)

// errUnsent is a request on a connection that had ended before: the broker has not seen it.
var errUnsent = errors.New("the connection had ended")

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *wireError      `json:"error"`
	// Instead of a result.
	token *Token
}

type wireError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Reason     Reason            `json:"reason"`
		Hint       string            `json:"hint"`
		RetryAfter float64           `json:"retry_after"`
		OAuth      map[string]string `json:"oauth"`
	} `json:"data"`
}

// failure is the error of an answer.
func (m *message) failure() error {
	if e := m.Error; e != nil {
		return &Error{
			Reason: e.Data.Reason, Message: e.Message, Hint: e.Data.Hint, Code: e.Code, RetryAfter: e.Data.RetryAfter,
			OAuth: e.Data.OAuth}
	}
	if len(m.Result) == 0 && m.token == nil {
		return bad("has no result")
	}
	return nil
}

// request is a method, its parameters as JSON, how long the broker may take, and whether the answer may be a Token.
type request struct {
	method     string
	params     []byte
	limit      time.Duration
	wantsToken bool
}

// waiter is a request without an answer.
type waiter struct {
	wantsToken bool
	// Of the goroutine that reads for itself.
	got *message
	// Of each other.
	answer chan *message
}

// channel is a connection that several goroutines use. A goroutine that finds no other reads its answer by itself. If
// others begin during this time, or the answer takes long, another goroutine reads for all until nothing is expected.
type channel struct {
	connection *net.UnixConn
	input      *input
	lock       sync.Mutex
	waiting    map[uint64]*waiter
	last       uint64
	isRead     bool
	isReplaced bool
	// Set when the connection has ended; ended is closed then.
	failure *Error
	ended   chan struct{}
	events  chan json.RawMessage
}

func openChannel(ctx context.Context, socket string, events int) (*channel, error) {
	connection, err := choose(socket).connect(ctx)
	if err != nil {
		return nil, err
	}
	input, err := newInput(connection)
	if err != nil {
		return nil, disconnected()
	}
	c := &channel{
		connection: connection, input: input, waiting: map[uint64]*waiter{}, ended: make(chan struct{}),
		events: make(chan json.RawMessage, events)}
	if events > 0 {
		c.isRead = true
		go c.read()
	}
	return c, nil
}

// read delivers to all, until nothing is expected.
func (c *channel) read() {
	for c.deliverLines() {
		c.lock.Lock()
		c.isRead = len(c.waiting) > 0 || cap(c.events) > 0
		isDone := !c.isRead
		c.lock.Unlock()
		if isDone {
			return
		}
		if c.input.read() != nil {
			c.fail(disconnected())
			return
		}
	}
}

// readBriefly is the answer of the goroutine that reads for itself. Without one, another goroutine reads.
func (c *channel) readBriefly(own *waiter) *message {
	for own.got == nil {
		hasMore, err := c.input.readBriefly()
		if err != nil {
			c.fail(disconnected())
			return nil
		}
		if !hasMore {
			break
		}
		if !c.deliverLines() {
			return own.got
		}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if own.got == nil {
		own.answer = make(chan *message, 1)
	}
	c.isRead = len(c.waiting) > 0
	if c.isRead {
		go c.read()
	}
	return own.got
}

// deliverLines gives each line to its waiter. False: the connection has ended.
func (c *channel) deliverLines() bool {
	for {
		line, ok := c.input.next()
		if !ok {
			break
		}
		if !c.deliver(line) {
			return false
		}
	}
	if c.input.isTooLong() {
		c.fail(bad("is too long"))
		return false
	}
	return true
}

func (c *channel) deliver(line []byte) bool {
	if id, result, ok := quickResult(line); ok && c.wantsToken(id) {
		if token, ok := quickToken(result); ok {
			c.resolve(id, &message{token: token})
			return true
		}
	}
	got := new(message)
	// The error of encoding/json may quote the text, which may contain a token.
	if !utf8.Valid(line) || json.Unmarshal(line, got) != nil {
		c.fail(bad("is not valid"))
		return false
	}
	var id uint64
	if json.Unmarshal(got.ID, &id) == nil && c.resolve(id, got) {
		return true
	}
	if got.Method == "event" && cap(c.events) > 0 {
		select {
		case c.events <- got.Params:
		default:
			c.fail(disconnected())
			return false
		}
	}
	return true
}

func (c *channel) wantsToken(id uint64) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	found := c.waiting[id]
	return found != nil && found.wantsToken
}

// resolve: late answers, and notifications of a newer broker, have no waiter.
func (c *channel) resolve(id uint64, got *message) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	found := c.waiting[id]
	if found == nil {
		return false
	}
	delete(c.waiting, id)
	if found.answer == nil {
		found.got = got
	} else {
		found.answer <- got
	}
	return true
}

func (c *channel) fail(reason *Error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.failLocked(reason)
}

func (c *channel) failLocked(reason *Error) {
	if c.failure == nil {
		c.failure = reason
		c.connection.Close()
		close(c.ended)
	}
}

// replace: new requests use another connection; this one ends after its last answer.
func (c *channel) replace() {
	c.lock.Lock()
	c.isReplaced = true
	isIdle := len(c.waiting) == 0
	c.lock.Unlock()
	if isIdle {
		c.fail(disconnected())
	}
}

func (c *channel) isOpen() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.failure == nil
}

// begin sends a request. True: no other goroutine reads.
func (c *channel) begin(r request, own *waiter) (uint64, bool, error) {
	line := make([]byte, 0, len(r.method)+len(r.params)+lineOverhead)
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.failure != nil {
		return 0, false, c.failure
	}
	if len(c.waiting) >= mostWaiting {
		return 0, false, &Error{
			Reason: ReasonOverloaded, Message: "too many requests of this process wait", Hint: "Make fewer calls at once."}
	}
	c.last++
	line = strconv.AppendUint(append(line, quickBegin...), c.last, 10)
	line = appendString(append(line, `,"method":`...), r.method)
	line = append(append(append(line, `,"params":`...), r.params...), "}\n"...)
	if err := c.send(line); err != nil {
		// Half of the line may have been sent.
		c.failLocked(disconnected())
		return 0, false, err
	}
	isReader := !c.isRead
	c.isRead = true
	if !isReader {
		own.answer = make(chan *message, 1)
	}
	c.waiting[c.last] = own
	return c.last, isReader, nil
}

func (c *channel) send(line []byte) error {
	c.connection.SetWriteDeadline(time.Now().Add(connectLimit))
	count, err := c.connection.Write(line)
	switch {
	case err == nil:
		return nil
	case count == 0 && errors.Is(err, syscall.EPIPE):
		return errUnsent
	}
	return disconnected()
}

// exchange returns the answer to a request, which is not an error.
func (c *channel) exchange(ctx context.Context, r request) (*message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own := &waiter{wantsToken: r.wantsToken}
	id, isReader, err := c.begin(r, own)
	if err != nil {
		return nil, err
	}
	var got *message
	if isReader {
		got = c.readBriefly(own)
	}
	if got == nil {
		got, err = c.await(ctx, own, r.limit)
	}
	c.forget(id)
	if err == nil {
		err = got.failure()
	}
	return got, err
}

// await is the answer that another goroutine reads.
func (c *channel) await(ctx context.Context, own *waiter, limit time.Duration) (*message, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case got := <-own.answer:
		return got, nil
	case <-c.ended:
		select {
		case got := <-own.answer:
			return got, nil
		default:
			return nil, c.failure
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		// The broker ends each request by itself: this connection is of no use any more.
		c.fail(disconnected())
		return nil, late()
	}
}

func (c *channel) forget(id uint64) {
	c.lock.Lock()
	delete(c.waiting, id)
	isDone := c.isReplaced && len(c.waiting) == 0
	c.lock.Unlock()
	if isDone {
		c.fail(disconnected())
	}
}
