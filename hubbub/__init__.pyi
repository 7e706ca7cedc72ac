from aggregator.reading.export.reader import read as read
from oracles import oracle as oracle
from oracles.query import load as load
from producers import Client as Client
from producers import Publisher as Publisher
