/// The last summary of all accounts, and its subscribers.
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
