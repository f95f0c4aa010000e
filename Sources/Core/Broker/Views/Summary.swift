/// The last summary of all accounts, and who is told of it.
@BrokerActor
final class Summary {
  var isDue = false
  var action: (@Sendable (String) -> Void)?
  private var said: String?

  func tell(_ text: String) {
    guard let action, text != said else { return }
    said = text
    action(text)
  }
}
