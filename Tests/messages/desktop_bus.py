#!/usr/bin/python3
"""A fake logind and a fake notification server on one bus, written from org.freedesktop.login1(5) and the Desktop
Notifications Specification 1.2. Prints a JSON line for each call; does what its lines of input say."""

import json
import os
import sys

import dbus
import dbus.lowlevel
import dbus.mainloop.glib
import dbus.service
from gi.repository import GLib

LOGIN, MANAGER = "org.freedesktop.login1", "org.freedesktop.login1.Manager"
SESSION, FOLDER = "org.freedesktop.login1.Session", "/org/freedesktop/login1"
PROPERTIES = "org.freedesktop.DBus.Properties"
NOTIFICATIONS = "org.freedesktop.Notifications"


def say(**members):
    print(json.dumps(members), flush=True)


class Logind(dbus.service.Object):
    @dbus.service.method(MANAGER, in_signature="ssss", out_signature="h")
    def Inhibit(self, what, who, why, mode):
        reading, writing = os.pipe()
        say(call="Inhibit", what=what, who=who, why=why, mode=mode)
        GLib.io_add_watch(reading, GLib.IO_HUP, lambda *_: say(call="released"))
        result = dbus.types.UnixFd(writing)
        os.close(writing)
        return result

    @dbus.service.signal(MANAGER, signature="b")
    def PrepareForSleep(self, begins):
        pass


class Session(dbus.service.Object):
    def __init__(self, bus, path, user):
        super().__init__(bus, path)
        self.user = user

    @dbus.service.signal(SESSION, signature="")
    def Lock(self):
        pass

    @dbus.service.signal(PROPERTIES, signature="sa{sv}as")
    def PropertiesChanged(self, interface, changed, invalidated):
        pass

    def hint(self, is_locked):
        """As logind tells SetLockedHint, among other properties."""
        others = {"IdleHint": dbus.Boolean(True), "IdleSinceHint": dbus.UInt64(5)}
        self.PropertiesChanged(SESSION, {**others, "LockedHint": dbus.Boolean(is_locked)}, [])

    @dbus.service.method(PROPERTIES, in_signature="ss", out_signature="v")
    def Get(self, interface, name):
        values = (dbus.UInt32(self.user), dbus.ObjectPath(f"{FOLDER}/user/_{self.user}"))
        return dbus.Struct(values, signature="uo", variant_level=1)


class Desktop(dbus.service.Object):
    @dbus.service.method(NOTIFICATIONS, in_signature="susssasa{sv}i", out_signature="u")
    def Notify(self, app, replaces, icon, summary, body, actions, hints, timeout):
        say(call="Notify", app=app, summary=summary, body=body)
        return 1


def forge():
    """Another process sends logind's signals to each connection: no subscription is needed for that."""
    forger = dbus.bus.BusConnection(os.environ["DBUS_SESSION_BUS_ADDRESS"])
    path = f"{FOLDER}/session/_31"
    hint = dbus.Dictionary({"LockedHint": dbus.Boolean(True)}, signature="sv")
    for name in filter(lambda name: name.startswith(":"), forger.list_names()):
        for place, interface, member, signature, values in (
                (FOLDER, MANAGER, "PrepareForSleep", "b", [True]), (path, SESSION, "Lock", "", []),
                (path, PROPERTIES, "PropertiesChanged", "sa{sv}as", [SESSION, hint, []])):
            message = dbus.lowlevel.SignalMessage(place, interface, member)
            message.set_destination(name)
            message.append(signature=signature, *values)
            forger.send_message(message)
    forger.flush()
    say(call="forged")


def main():
    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    bus = dbus.bus.BusConnection(os.environ["DBUS_SESSION_BUS_ADDRESS"])
    names = [dbus.service.BusName(name, bus) for name in (LOGIN, NOTIFICATIONS)]
    logind = Logind(bus, FOLDER)
    Desktop(bus, "/org/freedesktop/Notifications")
    mine, other = (Session(bus, f"{FOLDER}/session/{number}", user) for number, user in
                   (("_31", os.getuid()), ("_32", os.getuid() + 1)))
    actions = {"suspend": lambda: logind.PrepareForSleep(True), "resume": lambda: logind.PrepareForSleep(False),
               "lock": mine.Lock, "lock-other": other.Lock, "hint": lambda: mine.hint(True),
               "no-hint": lambda: mine.hint(False), "hint-other": lambda: other.hint(True),
               "forge": forge, "idle": lambda: mine.PropertiesChanged(SESSION, {"IdleHint": dbus.Boolean(True)}, ["LockedHint"])}
    loop = GLib.MainLoop()

    def command(*_):
        line = sys.stdin.readline().strip()
        if not line:
            loop.quit()
            return False
        actions[line]()
        return True

    GLib.io_add_watch(sys.stdin, GLib.IO_IN | GLib.IO_HUP, command)
    say(call="ready", names=len(names))
    loop.run()


main()
