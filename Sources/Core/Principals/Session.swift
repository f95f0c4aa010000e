public import BrokerAPI

/// One connection, as the dispatcher sees it.
public protocol Session: AnyObject, Sendable {
  /// The peer, as its listener identifies it.
  var principal: Principal { get }
  /// The present view of the file system of the process that connected; nil: it has ended, or the view is unknown.
  var fileView: FileView? { get }
  /// Queues a notification to this connection. False: the connection was closed, or its queue is full and it is closed
  /// now.
  func notify(method: String, params: JSON) -> Bool
  /// Whether the client is still connected and reads its replies: otherwise no long work begins for it.
  var isReading: Bool { get }
  /// The connection may be silent from now on for as long as its client likes: it was promised notifications.
  func holdOpen()
  /// Runs once when the connection ends; at once where it has ended.
  func onClose(_ action: @escaping @Sendable () -> Void)
  /// The caller's rights were decided: from now on its request may wait, and takes no time from others.
  func decided()
}

extension Session {
  public func decided() {}
  public var fileView: FileView? { nil }
}
