import CSystemd
import Glibc

/// A connection to a message bus (sd-bus(3)). For one thread.
final class MessageBus {
  /// Microseconds. A service that does not answer keeps nothing.
  private static let patience: UInt64 = 5_000_000

  private let bus: OpaquePointer

  /// Nil if there is no such bus.
  init?(_ open: (UnsafeMutablePointer<OpaquePointer?>) -> Int32) {
    var bus: OpaquePointer?
    guard open(&bus) >= 0, let bus else { return nil }
    self.bus = bus
  }

  /// The bus of the machine, or of the user's session.
  static func system() -> MessageBus? { MessageBus(sd_bus_open_system) }
  static func session() -> MessageBus? { MessageBus(sd_bus_open_user) }

  deinit { sd_bus_flush_close_unref(bus) }

  /// To wait for; what it waits for is in ``events``.
  var descriptor: Int32 { sd_bus_get_fd(bus) }
  var events: Int16 { Int16(max(0, sd_bus_get_events(bus))) }

  /// Subscribes to signals. False: the bus refuses it.
  func match(_ rule: String) -> Bool {
    // Messages are taken from `next`, which gets them if no callback has handled them.
    sd_bus_add_match(bus, nil, rule, { _, _, _ in 0 }, nil) >= 0
  }

  /// The next message that has come; nil: there is none. Throws when the connection is lost.
  func next() throws(Lost) -> Message? {
    // Replies and the bus's own messages are handled inside, each in a turn.
    for _ in 0..<Self.mostTurns {
      var message: OpaquePointer?
      let code = sd_bus_process(bus, &message)
      guard code >= 0 else { throw Lost() }
      if let message { return Message(message) }
      if code == 0 { return nil }
    }
    return nil
  }

  private static let mostTurns = 1000

  struct Lost: Error {}

  /// Calls a method. Nil: it failed, or was not answered in time.
  func call(
    _ service: String, _ path: String, _ interface: String, _ member: String, _ fill: (Message) -> Bool
  ) -> Message? {
    var request: OpaquePointer?
    guard sd_bus_message_new_method_call(bus, &request, service, path, interface, member) >= 0, let request else {
      return nil
    }
    let message = Message(request)
    var reply: OpaquePointer?
    guard fill(message), sd_bus_call(bus, message.pointer, Self.patience, nil, &reply) >= 0, let reply else {
      return nil
    }
    return Message(reply)
  }
}

extension MessageBus {
  private static let driver = (name: "org.freedesktop.DBus", path: "/org/freedesktop/DBus")

  /// The unique name of the connection that has the name now (D-Bus specification, "GetNameOwner").
  func owner(of name: String) -> String? {
    call(Self.driver.name, Self.driver.path, Self.driver.name, "GetNameOwner") { $0.append(name) }?.text()
  }
}

/// One message, and its members from the first to the last.
final class Message {
  let pointer: OpaquePointer

  /// Takes the reference over.
  init(_ pointer: OpaquePointer) { self.pointer = pointer }

  deinit { sd_bus_message_unref(pointer) }

  func isSignal(_ interface: String, _ member: String) -> Bool {
    sd_bus_message_is_signal(pointer, interface, member) > 0
  }

  /// The unique name of the connection that sent it, which the bus sets.
  var sender: String? { sd_bus_message_get_sender(pointer).map { String(cString: $0) } }

  var path: String? { sd_bus_message_get_path(pointer).map { String(cString: $0) } }

  func append(_ text: String) -> Bool { sd_bus_message_append_basic(pointer, Kind.text, text) >= 0 }

  func append(_ number: UInt32) -> Bool {
    withUnsafePointer(to: number) { sd_bus_message_append_basic(pointer, Kind.unsigned, $0) >= 0 }
  }

  func append(_ number: Int32) -> Bool {
    withUnsafePointer(to: number) { sd_bus_message_append_basic(pointer, Kind.signed, $0) >= 0 }
  }

  /// An array without members.
  func appendEmpty(arrayOf type: String) -> Bool {
    sd_bus_message_open_container(pointer, Kind.array, type) >= 0 && sd_bus_message_close_container(pointer) >= 0
  }

  func flag() -> Bool? { read(Kind.flag, Int32(0)).map { $0 != 0 } }
  func unsigned() -> UInt32? { read(Kind.unsigned, UInt32(0)) }
  func enterStructure(_ types: String) -> Bool { sd_bus_message_enter_container(pointer, Kind.structure, types) > 0 }
  func enterVariant(_ types: String) -> Bool { sd_bus_message_enter_container(pointer, Kind.variant, types) > 0 }

  func text() -> String? {
    let none: UnsafePointer<CChar>? = nil
    return read(Kind.text, none).flatMap { $0 }.map { String(cString: $0) }
  }

  /// The value of that name in a dictionary of properties (`a{sv}`), if it is a flag.
  func changedFlag(_ name: String) -> Bool? {
    guard sd_bus_message_enter_container(pointer, Kind.array, "{sv}") > 0 else { return nil }
    while sd_bus_message_enter_container(pointer, Kind.entry, "sv") > 0 {
      if text() == name { return enterVariant("b") ? flag() : nil }
      guard sd_bus_message_skip(pointer, "v") > 0, sd_bus_message_exit_container(pointer) > 0 else { return nil }
    }
    return nil
  }

  /// A copy of a descriptor in the message, for the caller to close.
  func descriptor() -> Int32? {
    read(Kind.descriptor, Int32(-1)).flatMap { one in
      let copy = fcntl(one, F_DUPFD_CLOEXEC, 3)
      return copy < 0 ? nil : copy
    }
  }

  private func read<Value>(_ kind: CChar, _ start: Value) -> Value? {
    var value = start
    return withUnsafeMutablePointer(to: &value) { sd_bus_message_read_basic(pointer, kind, $0) } > 0 ? value : nil
  }

  /// D-Bus specification, "Type System".
  private enum Kind {
    static let text = CChar(UInt8(ascii: "s"))
    static let unsigned = CChar(UInt8(ascii: "u"))
    static let signed = CChar(UInt8(ascii: "i"))
    static let flag = CChar(UInt8(ascii: "b"))
    static let descriptor = CChar(UInt8(ascii: "h"))
    static let array = CChar(UInt8(ascii: "a"))
    static let structure = CChar(UInt8(ascii: "r"))
    static let variant = CChar(UInt8(ascii: "v"))
    static let entry = CChar(UInt8(ascii: "e"))
  }
}
