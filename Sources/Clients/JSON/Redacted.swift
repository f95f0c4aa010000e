/// Prints only its description, which contains nothing secret or personal: not in `dump`, in a debugger or by `Mirror`.
/// Without a description it prints `‹redacted›`.
public protocol Redacted: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Redacted {
  public var description: String { "‹redacted›" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}
