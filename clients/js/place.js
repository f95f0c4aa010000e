'use strict'

const fs = require('node:fs')
const net = require('node:net')
const path = require('node:path')
const reasons = require('./reasons.js')

const SYSTEM_PATH = '/run/grantd/grantd.sock'
const START_SYSTEM = 'sudo systemctl start grantd.socket'
const START_USER = 'systemctl --user start grantd.socket'
// How long the broker's queue of new connections may be full.
const CONNECT_MS = 10_000
const PAUSE_MS = 10

/** The path of the broker's socket, whether the caller named it, and the commands that start a broker there. */
exports.place = function (named) {
  const folder = process.env.XDG_RUNTIME_DIR ?? ''
  const user = `${folder.startsWith('/') ? folder : `/run/user/${process.getuid()}`}/grantd/grantd.sock`
  named = named || process.env.GRANTD_SOCKET
  const file = named || (fs.existsSync(user) ? user : SYSTEM_PATH)
  const starts = file === user ? START_USER : file === SYSTEM_PATH && named ? START_SYSTEM : `${START_USER}\` or \`${START_SYSTEM}`
  return { file, isNamed: Boolean(named), starts }
}

/** A connected net.Socket. */
exports.connect = async function (place) {
  const end = Date.now() + CONNECT_MS
  for (;;) {
    try {
      check(place)
      return await open(place.file)
    } catch (error) {
      if (error.reason) throw error
      if (error.code !== 'EAGAIN' || Date.now() > end) throw failure(place, error)
    }
    await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
  }
}

function open (file) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ path: file })
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.removeListener('error', reject)
      resolve(socket)
    })
  })
}

/**
 * Node has no SO_PEERCRED. The owner of the socket's file is the user whose process made it; only root can give a file to
 * another user.
 */
function check ({ file, isNamed }) {
  const uid = isNamed ? 0 : fs.lstatSync(file).uid
  if (uid === 0 || uid === process.geteuid() || uid === folderOwner(file)) return
  throw new reasons.ForeignServer(`the server at ${file} belongs to another user (uid ${uid})`, {
    reason: 'foreign_server', hint: 'If that is intended, name the socket in GRANTD_SOCKET.'
  })
}

/** The owner of the socket's folder; undefined if others can write to the folder, or others than root can replace it. */
function folderOwner (file) {
  const folder = path.dirname(file)
  const [own, above] = [fs.lstatSync(folder), fs.lstatSync(path.dirname(folder))]
  return own.isDirectory() && above.uid === 0 && ((own.mode | above.mode) & 0o022) === 0 ? own.uid : undefined
}

function failure ({ file, starts }, error) {
  if (error.code === 'EACCES' || error.code === 'EPERM') {
    return new reasons.NotPermitted(`this user has no access to ${file}`, {
      reason: 'not_permitted', hint: 'An administrator can allow it with `group` in [socket] of the configuration.'
    })
  }
  if (error.code === 'EAGAIN') {
    return new reasons.TimedOut(`the broker at ${file} accepts no connection`, { reason: 'timed_out', hint: 'Try again.' })
  }
  return new reasons.NotRunning(`no broker listens at ${file}`, { reason: 'not_running', hint: `Start it with \`${starts}\`.` })
}
